"""Duplicates over the whole corpus, scattered and gathered; no job holds the corpus.

    keys (a shard)        what documents are compared by: their id, their content, their MinHash bands
    candidates (1 of P)   pairs of documents with an equal key, and repeated ids
    connect (one job)     connected components of the pairs, by external memory
    members (a shard)     what a decision needs of each document in a component: identity, rank, shingles
    resolve (1 of P)      of each component, which documents go and for which twin

Arithmetic for 500 M documents (1.6 TB) in 6,400 shards, 14 bands, `partitions` P = 256, `memory_bytes` 512 MiB:

- keys: 16 records of 36 bytes a document, 288 GB, written once and read once a pass; a job holds 64 k documents'.
- candidates: 31 M records in a job, 112 bytes each while they are sorted: 7 passes of 512 MB over 1.1 GB of keys.
- connect: 16 bytes a pair on disk; some 200 M pairs are 3.2 GB, read and written in each of about 10 rounds.
- members: 8 bytes a shingle of documents with near candidates, some 20 % of the text: 0.4 TB written and read once.
- resolve: passes as for candidates; one component is never cut, so a job holds at least its largest one.
"""
