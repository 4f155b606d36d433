"""The execution of calls: principals, requests and options."""
