"""The plugins that come with Toolyard, one folder each; found as anyone else's are."""
