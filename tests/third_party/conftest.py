"""The packages here are strangers': they bring their own tests and are installed to run them."""

collect_ignore_glob = ["toolstile-*"]
