"""Fills the store: parsers turn bytes into canonical text with typed blocks, the splitter turns blocks into chunks."""
