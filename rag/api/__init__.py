"""HTTP: routes, what they accept and return, and how errors look."""
