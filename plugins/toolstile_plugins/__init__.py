"""The plugins that come with Toolstile, one folder each; found as anyone else's are."""
