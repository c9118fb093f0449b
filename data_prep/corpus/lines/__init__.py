"""Lines that many documents of a source share (menus, notices, templates): found over all shards, and taken out.

    count (a shard)       the hashes of its documents' lines, by partition
    repeated (1 of P)     the lines of a source and language that enough different documents have
    strip (a shard)       its documents without those lines

Lines are compared without the white space at their ends, within a source and a language. A document that the source has
many times counts once: its copies make no templates of its lines, and are left to the search for duplicates.

Arithmetic for 1.6 TB, a line of 15 characters or more in 95 bytes of text (measured on 41 languages), hence 17 G lines,
6,400 shards, `partitions` P = 256, `memory_bytes` 512 MiB:

- count: 230 MB/s on a core, 2 core-hours; 8.5 bytes a line, 145 GB written once; a job holds 4 M lines, 250 MB.
- repeated: 66 M lines, 0.6 GB, in a job, one source at a time, 96 bytes each while they are sorted: 12 passes at most,
  3 with 2 GiB; 3 M lines a second are sorted and 15 M read, 2 core-hours and 0.3 a pass.
- strip: 110 MB/s on a core, 4 core-hours. A line in ten at most is a template; 20 M of them are 0.2 GB that every job
  reads, to hold those of its shard.

Two different lines have one hash with odds of 2^-64: of 17 G, some 8 pairs would be taken for each other.
"""
