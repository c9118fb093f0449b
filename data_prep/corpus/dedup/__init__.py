"""Duplicates: candidate pairs by hash partition, then which document of each cluster stays.

Arithmetic for 500 M documents, 14 bands, 64 partitions: a candidate job holds 500 M x 15 / 64 keys of 19 bytes, 2.2 GB
(`dedup.partitions` divides it). Clustering holds pairs and documents that share a key, not the corpus: 16 bytes a pair,
about 60 bytes a document; shingles of documents with near candidates lie in a temporary file, 8 bytes a word.
"""
