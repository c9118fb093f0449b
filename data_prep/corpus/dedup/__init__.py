"""Find duplicates over the whole corpus. No job holds the whole corpus in memory.

    keys (per shard)      write the keys that documents are compared by: ids, content hashes, MinHash bands
    candidates (1 of P)   find pairs of documents with an equal key, and repeated ids
    connect (one job)     join the pairs into connected components, with temporary files
    members (per shard)   collect id, rank and shingles of each document in a component
    resolve (1 of P)      decide for each component which documents are removed as duplicates of which kept document

P is `dedup.partitions`. A job holds in memory:

- keys: the keys of 65,536 documents.
- candidates: 112 bytes per key, in as many passes as `memory_bytes` requires.
- connect: 8 times the size of a bucket of pairs. `memory_bytes` determines the number of buckets.
- members: one batch of texts. The shingles are written to a temporary file.
- resolve: the shingles twice, in as many passes as `memory_bytes` requires. A component is never split between passes.

`data_prep/corpus/scale.py` and docs/corpus-scale.md have the totals for 1.6 TB of text in 500 M documents.
"""
