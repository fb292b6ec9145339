"""How each family of providers is asked, and what its answers mean."""
