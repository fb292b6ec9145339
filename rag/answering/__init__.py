"""Question to cited answer, or to the honest absence of one."""
