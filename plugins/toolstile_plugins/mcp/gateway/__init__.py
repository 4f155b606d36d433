"""The gateway: the tools of other servers as tools of this host."""
