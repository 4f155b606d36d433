"""Shell lines: their simple commands, and the policy `command` over these."""
