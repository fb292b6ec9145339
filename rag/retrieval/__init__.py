"""Question to ranked chunks: two legs, fusion, rerank, and the section around a hit."""
