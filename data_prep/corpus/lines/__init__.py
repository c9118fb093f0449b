"""Lines that many documents of a source share (menus, notices, templates): found over all shards, and taken out.

    count (a shard)       the hashes of its documents' lines, dealt into partitions
    repeated (1 of P)     the lines of a source and language that enough different documents have
    strip (a shard)       its documents without those lines

Lines are compared without the white space at their ends, within a source and a language. A document that the source has
many times counts once: its copies make no templates of its lines, and are left to the search for duplicates.

Arithmetic for 1.6 TB and 27 G lines of 15 characters or more in 6,400 shards, P = 256, `memory_bytes` 512 MiB:

- count: 12 bytes a line, 320 GB written once and read twice; a job holds the records of 4 M lines, 250 MB.
- repeated: 105 M lines in a job, one source at a time, 64 bytes each while they are sorted: at most 13 passes over
  1.3 GB, 3 with 2 GiB.
- strip: a line in ten at most is a template; 20 M of them are 0.2 GB that every job reads, to hold those of its shard.
"""
