# Find duplicates over all shards. The keys of each shard are scattered into partitions. Each partition yields
# candidates, which are pairs of documents that may be duplicates. The candidates of all partitions are connected into
# clusters. The clusters are distributed over the partitions, and one job per partition decides which documents of its
# clusters to keep. A shard is `<source>/<part>`, or a shard of an earlier run that this corpus must not repeat
# (corpus.dedup.against).


rule scatter_keys:
    input:
        config="<run>/config/dedup.json",
        tables=key_tables,
    output:
        table="<run>/corpus/keys/{shard}.parquet",
        manifest="<run>/corpus/keys/{shard}.json",
    log:
        "<logs>/scatter_keys/{shard}.log",
    benchmark:
        "<benchmarks>/scatter_keys/{shard}.tsv"
    group:
        TEXT_GROUP
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("scatter_keys", group=TEXT_GROUP, rules_in_group=5),
    params:
        corpus=run_folder("corpus"),
    message:
        "scatter the deduplication keys of {wildcards.shard} into partitions"
    shell:
        "bloomery corpus dedup keys --config {input.config:q} --corpus {params.corpus:q} --part {wildcards.shard:q}"
        " --output {output.table:q} > {log:q} 2>&1"


rule find_candidates:
    input:
        config="<run>/config/dedup.json",
        parts="<run>/config/parts.json",
        scattered=collect(rules.scatter_keys.output.table, shard=DEDUP_SHARDS),
    output:
        table="<run>/corpus/duplicates/candidates-{partition}.parquet",
        manifest="<run>/corpus/duplicates/candidates-{partition}.json",
        repeated="<run>/corpus/duplicates/repeated-{partition}.parquet",
        repeated_manifest="<run>/corpus/duplicates/repeated-{partition}.json",
    log:
        "<logs>/find_candidates/{partition}.log",
    benchmark:
        "<benchmarks>/find_candidates/{partition}.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("find_candidates"),
    params:
        corpus=run_folder("corpus"),
    message:
        "find candidates for duplicates, partition {wildcards.partition} of the duplicate search"
    shell:
        "bloomery corpus dedup candidates --config {input.config:q} --corpus {params.corpus:q} --parts {input.parts:q}"
        " --partition {wildcards.partition:q} --output {output.table:q} --repeated {output.repeated:q}"
        " > {log:q} 2>&1"


rule connect_candidates:
    input:
        config="<run>/config/dedup.json",
        parts="<run>/config/parts.json",
        candidates=collect(rules.find_candidates.output.table, partition=PARTITIONS),
    output:
        table="<run>/corpus/duplicates/clusters.parquet",
        manifest="<run>/corpus/duplicates/clusters.json",
        involved="<run>/corpus/duplicates/involved.parquet",
        involved_manifest="<run>/corpus/duplicates/involved.json",
    log:
        "<logs>/connect_candidates.log",
    benchmark:
        "<benchmarks>/connect_candidates.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("connect_candidates"),
    params:
        corpus=run_folder("corpus"),
    message:
        "connect candidates for duplicates into clusters"
    shell:
        "bloomery corpus dedup connect --config {input.config:q} --corpus {params.corpus:q} --parts {input.parts:q}"
        " --output {output.table:q} --involved {output.involved:q} > {log:q} 2>&1"


rule gather_members:
    input:
        config="<run>/config/dedup.json",
        tables=member_tables,
        involved="<run>/corpus/duplicates/involved.parquet",
        repeated=collect(rules.find_candidates.output.repeated, partition=PARTITIONS),
    output:
        table="<run>/corpus/members/{shard}.parquet",
        manifest="<run>/corpus/members/{shard}.json",
    log:
        "<logs>/gather_members/{shard}.log",
    benchmark:
        "<benchmarks>/gather_members/{shard}.tsv"
    group:
        "members"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("gather_members", group="members"),
    params:
        corpus=run_folder("corpus"),
    message:
        "gather members of duplicate clusters in {wildcards.shard}"
    shell:
        "bloomery corpus dedup members --config {input.config:q} --corpus {params.corpus:q} --part {wildcards.shard:q}"
        " --output {output.table:q} > {log:q} 2>&1"


rule resolve_duplicates:
    input:
        config="<run>/config/dedup.json",
        parts="<run>/config/parts.json",
        clusters="<run>/corpus/duplicates/clusters.parquet",
        members=collect(rules.gather_members.output.table, shard=DEDUP_SHARDS),
    output:
        table="<run>/corpus/duplicates/resolved-{partition}.parquet",
        manifest="<run>/corpus/duplicates/resolved-{partition}.json",
        survivors="<run>/corpus/duplicates/survivors-{partition}.parquet",
        survivors_manifest="<run>/corpus/duplicates/survivors-{partition}.json",
    log:
        "<logs>/resolve_duplicates/{partition}.log",
    benchmark:
        "<benchmarks>/resolve_duplicates/{partition}.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("resolve_duplicates"),
    params:
        corpus=run_folder("corpus"),
    message:
        "decide which duplicates to keep, partition {wildcards.partition} of the duplicate search"
    shell:
        "bloomery corpus dedup resolve --config {input.config:q} --corpus {params.corpus:q} --parts {input.parts:q}"
        " --partition {wildcards.partition:q} --output {output.table:q} --survivors {output.survivors:q}"
        " > {log:q} 2>&1"
