# Make a clean corpus from the sources: ingest, measure and judge each shard, find duplicates over all shards, clean
# each shard, and compute the weights of the mixture.


rule ingest:
    input:
        config="<run>/config/ingest/{source}/{part}.json",
        files=files_of_part,
    output:
        table="<run>/corpus/raw/{source}/{part}.parquet",
        manifest="<run>/corpus/raw/{source}/{part}.json",
        quarantine="<run>/corpus/quarantine/{source}/{part}.jsonl",
    log:
        "<logs>/ingest/{source}/{part}.log",
    benchmark:
        "<benchmarks>/ingest/{source}/{part}.tsv"
    group:
        "read"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("ingest", group="read", rules_in_group=5),
    message:
        "ingest {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery corpus ingest --config {input.config:q} --output {output.table:q} --quarantine {output.quarantine:q}"
        " > {log:q} 2>&1"


rule measure:
    input:
        config="<run>/config/measure.json",
        raw="<texts>/{source}/{part}.parquet",
    output:
        table="<run>/corpus/measures/{source}/{part}.parquet",
        manifest="<run>/corpus/measures/{source}/{part}.json",
    log:
        "<logs>/measure/{source}/{part}.log",
    benchmark:
        "<benchmarks>/measure/{source}/{part}.tsv"
    group:
        TEXT_GROUP
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("measure", group=TEXT_GROUP, rules_in_group=5),
    message:
        "measure documents of {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery corpus measure --config {input.config:q} --input {input.raw:q} --output {output.table:q}"
        " > {log:q} 2>&1"


rule judge:
    input:
        config="<run>/config/judge.json",
        measures="<run>/corpus/measures/{source}/{part}.parquet",
    output:
        table="<run>/corpus/verdicts/{source}/{part}.parquet",
        manifest="<run>/corpus/verdicts/{source}/{part}.json",
    log:
        "<logs>/judge/{source}/{part}.log",
    benchmark:
        "<benchmarks>/judge/{source}/{part}.tsv"
    group:
        TEXT_GROUP
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("judge", group=TEXT_GROUP, rules_in_group=5),
    message:
        "decide which documents of {wildcards.source}/{wildcards.part} to keep"
    shell:
        "bloomery corpus judge --config {input.config:q} --input {input.measures:q} --output {output.table:q}"
        " > {log:q} 2>&1"


# This rule runs only if the run names evaluation texts.
rule decontaminate:
    input:
        config="<run>/config/decontaminate.json",
        raw="<texts>/{source}/{part}.parquet",
        evaluation=EVALUATION,
    output:
        table="<run>/corpus/contaminated/{source}/{part}.parquet",
        manifest="<run>/corpus/contaminated/{source}/{part}.json",
    log:
        "<logs>/decontaminate/{source}/{part}.log",
    benchmark:
        "<benchmarks>/decontaminate/{source}/{part}.tsv"
    group:
        TEXT_GROUP
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("decontaminate", group=TEXT_GROUP, rules_in_group=5),
    params:
        evaluation=file_options("evaluation"),
    message:
        "find evaluation texts in {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery corpus decontaminate --config {input.config:q} --input {input.raw:q} {params.evaluation:q}"
        " --output {output.table:q} > {log:q} 2>&1"


rule clean:
    input:
        config="<run>/config/clean.json",
        raw="<texts>/{source}/{part}.parquet",
        verdicts="<run>/corpus/verdicts/{source}/{part}.parquet",
        duplicates=collect(rules.resolve_duplicates.output.table, partition=PARTITIONS),
        repeated=collect(rules.find_candidates.output.repeated, partition=PARTITIONS),
        contaminated=(
            ["<run>/corpus/contaminated/{source}/{part}.parquet"] if EVALUATION else []
        ),
    output:
        table="<run>/corpus/clean/{source}/{part}.parquet",
        manifest="<run>/corpus/clean/{source}/{part}.json",
        removed="<run>/corpus/removed/{source}/{part}.parquet",
        removed_manifest="<run>/corpus/removed/{source}/{part}.json",
    log:
        "<logs>/clean/{source}/{part}.log",
    benchmark:
        "<benchmarks>/clean/{source}/{part}.tsv"
    group:
        "write"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("clean", group="write", rules_in_group=2),
    params:
        tables=file_options("duplicates", "repeated", "contaminated"),
    message:
        "write the clean documents of {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery corpus clean --config {input.config:q} --raw {input.raw:q} --verdicts {input.verdicts:q}"
        " {params.tables:q} --output {output.table:q} --removed {output.removed:q} > {log:q} 2>&1"


rule weigh_mixture:
    input:
        config="<run>/config/mixture.json",
        parts="<run>/config/parts.json",
        clean=every_shard("<run>/corpus/clean/{source}/{part}.parquet"),
        adopted="<run>/config/adopted.json",
        tokens=collect(
            "<run>/index/tokens/{source}/{part}.documents.json", zip, **ADOPTED_PAIRS
        ),
    output:
        "<run>/corpus/mixture.json",
    log:
        "<logs>/weigh_mixture.log",
    benchmark:
        "<benchmarks>/weigh_mixture.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("weigh_mixture"),
    params:
        corpus=run_folder("corpus"),
        index=run_folder("index"),
    message:
        "compute the weights of languages and sources in the mixture"
    shell:
        "bloomery corpus mixture --config {input.config:q} --corpus {params.corpus:q} --parts {input.parts:q}"
        " --index {params.index:q} --adopted {input.adopted:q} --output {output:q} > {log:q} 2>&1"


# A target names every output of its stage, not only the last one, so that a deleted file is created again.
rule corpus:
    input:
        collect(rules.ingest.output, zip, **SHARDS),
        collect(rules.count_lines.output, zip, **SHARDS) if LINES else [],
        collect(rules.find_repeated_lines.output, partition=LINE_PARTITIONS),
        collect(rules.strip_lines.output, zip, **SHARDS) if LINES else [],
        collect(rules.measure.output, zip, **SHARDS),
        collect(rules.judge.output, zip, **SHARDS),
        collect(rules.decontaminate.output, zip, **SHARDS) if EVALUATION else [],
        collect(rules.scatter_keys.output, shard=DEDUP_SHARDS),
        collect(rules.find_candidates.output, partition=PARTITIONS),
        rules.connect_candidates.output if PARTS else [],
        collect(rules.gather_members.output, shard=DEDUP_SHARDS),
        collect(rules.resolve_duplicates.output, partition=PARTITIONS),
        collect(rules.clean.output, zip, **SHARDS),
        rules.weigh_mixture.output,
        rules.report_corpus.output if PARTS else [],
        CORPUS_PAGE,
    message:
        "corpus: every output exists"
