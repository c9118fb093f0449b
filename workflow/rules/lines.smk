# Find lines that many documents of a source share, and remove them from the texts before the rule `measure` reads them.
# These rules run only if corpus.lines is enabled. If it is enabled, later rules read corpus/stripped. Otherwise, they
# read corpus/raw (`<texts>` in common.smk).


rule count_lines:
    input:
        config="<run>/config/lines.json",
        raw="<run>/corpus/raw/{source}/{part}.parquet",
    output:
        table="<run>/corpus/lines/{source}/{part}.parquet",
        manifest="<run>/corpus/lines/{source}/{part}.json",
    log:
        "<logs>/count_lines/{source}/{part}.log",
    benchmark:
        "<benchmarks>/count_lines/{source}/{part}.tsv"
    group:
        "read"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("count_lines", group="read", rules_in_group=5),
    message:
        "count lines of {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery corpus lines --config {input.config:q} --input {input.raw:q} --output {output.table:q}"
        " > {log:q} 2>&1"


rule find_repeated_lines:
    input:
        config="<run>/config/repeated_lines.json",
        parts="<run>/config/parts.json",
        lines=every_shard("<run>/corpus/lines/{source}/{part}.parquet"),
    output:
        table="<run>/corpus/repeated_lines/{partition}.parquet",
        manifest="<run>/corpus/repeated_lines/{partition}.json",
    log:
        "<logs>/find_repeated_lines/{partition}.log",
    benchmark:
        "<benchmarks>/find_repeated_lines/{partition}.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("find_repeated_lines"),
    params:
        corpus=run_folder("corpus"),
    message:
        "find repeated lines, partition {wildcards.partition} of the lines"
    shell:
        "bloomery corpus repeated-lines --config {input.config:q} --corpus {params.corpus:q} --parts {input.parts:q}"
        " --partition {wildcards.partition:q} --output {output.table:q} > {log:q} 2>&1"


rule strip_lines:
    input:
        config="<run>/config/lines.json",
        raw="<run>/corpus/raw/{source}/{part}.parquet",
        lines="<run>/corpus/lines/{source}/{part}.parquet",
        repeated=collect(
            rules.find_repeated_lines.output.table, partition=LINE_PARTITIONS
        ),
    output:
        table="<run>/corpus/stripped/{source}/{part}.parquet",
        manifest="<run>/corpus/stripped/{source}/{part}.json",
    log:
        "<logs>/strip_lines/{source}/{part}.log",
    benchmark:
        "<benchmarks>/strip_lines/{source}/{part}.tsv"
    group:
        TEXT_GROUP
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("strip_lines", group=TEXT_GROUP, rules_in_group=5),
    params:
        corpus=run_folder("corpus"),
    message:
        "strip repeated lines from {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery corpus strip --config {input.config:q} --input {input.raw:q} --corpus {params.corpus:q}"
        " --output {output.table:q} > {log:q} 2>&1"
