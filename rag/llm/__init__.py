"""Chat models: what turns a prompt with sources into a reply."""
