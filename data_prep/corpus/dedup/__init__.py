"""Duplicates over the whole corpus, scattered and gathered; no job holds the corpus.

    keys (a shard)        what documents are compared by: their id, their content, their MinHash bands
    candidates (1 of P)   pairs of documents with an equal key, and repeated ids
    connect (one job)     connected components of the pairs, by external memory
    members (a shard)     what a decision needs of each document in a component: identity, rank, shingles
    resolve (1 of P)      of each component, which documents are removed, and of which kept document each is a duplicate

What a job holds, in bytes: keys, those of 64 k documents; candidates, 112 a key in passes of `memory_bytes`; connect, 8
times a bucket of pairs, of which there are as many as `memory_bytes` asks; members, a batch of texts (their shingles
lie in a file); resolve, the shingles twice in passes as before, but never less than one component, which is not cut.
What 1.6 TB in 500 M documents come to is in `data_prep/corpus/scale.py` and docs/corpus-scale.md.
"""
