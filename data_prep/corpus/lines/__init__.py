"""Find lines that many documents of a source share (menus, notices, templates) over all shards, and remove them.

    count (per shard)     write the hashes of its documents' lines, by partition
    repeated (1 of P)     find the lines of a source and language that occur in enough different documents
    strip (per shard)     write its documents without those lines

Lines are compared within a source and a language, without the white space at their ends. Copies of a document count
once. So a document that occurs many times keeps its lines; the duplicate search removes the copies.

Estimate for 1.6 TB of text in 6,400 shards with `partitions` P = 256 and `memory_bytes` 512 MiB. There is one line of
15 characters or more per 95 bytes of text (measured on 41 languages), so there are 17 G lines.

- count: 230 MB/s per core, 2 core-hours in total. It writes 8.5 bytes per line, 145 GB in total. A job holds 4 M lines
  in 250 MB.
- repeated: a job reads 66 M lines, 0.6 GB, one source at a time. Sorting takes 96 bytes per line, so a job needs at
  most 12 passes, or 3 with 2 GiB. A core sorts 3 M lines per second and reads 15 M. The total is 2 core-hours for
  sorting and 0.3 core-hours per pass for reading.
- strip: 110 MB/s per core, 4 core-hours in total. At most one line in ten is repeated. 20 M repeated lines take 0.2 GB.
  Every job reads all repeated lines, and holds those that occur in its shard.

Two different lines have the same hash with probability 2^-64. Among 17 G lines, about 8 pairs have equal hashes.
"""
