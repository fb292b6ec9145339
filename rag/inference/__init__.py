"""Turning text into numbers: embedders and cross-encoders."""
