# Count the pre-tokens of each shard, weigh the counts by the mixture, and train a byte-level BPE tokenizer. If the run
# names an existing tokenizer, import this tokenizer instead.


rule count_pretokens:
    input:
        config="<run>/config/count.json",
        clean="<run>/corpus/clean/{source}/{part}.parquet",
    output:
        table="<run>/tokenizer/counts/{source}/{part}.parquet",
        manifest="<run>/tokenizer/counts/{source}/{part}.json",
    log:
        "<logs>/count_pretokens/{source}/{part}.log",
    benchmark:
        "<benchmarks>/count_pretokens/{source}/{part}.tsv"
    group:
        "write"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("count_pretokens", group="write", rules_in_group=2),
    message:
        "count pre-tokens of {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery tokenizer count {input.clean:q} --config {input.config:q} --output {output.table:q}"
        " > {log:q} 2>&1"


rule train_tokenizer:
    input:
        config="<run>/config/tokenizer.json",
        parts="<run>/config/parts.json",
        counts=every_shard("<run>/tokenizer/counts/{source}/{part}.parquet"),
        mixture="<run>/corpus/mixture.json",
    output:
        "<run>/results/tokenizer.json",
    log:
        "<logs>/train_tokenizer.log",
    benchmark:
        "<benchmarks>/train_tokenizer.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("train_tokenizer"),
    params:
        counts=run_folder("tokenizer", "counts"),
    message:
        "train the tokenizer"
    shell:
        "bloomery tokenizer train --config {input.config:q} --counts {params.counts:q} --parts {input.parts:q}"
        " --weights {input.mixture:q} --result {output:q} > {log:q} 2>&1"


# This rule replaces counting and training. It runs on the machine of the workflow, unless the site's file has a section
# `internet`, because the tokenizer may be on a Hub.
rule import_tokenizer:
    input:
        config="<run>/config/tokenizer.json",
        files=PLAN.tokenizer_files,
    output:
        "<run>/results/tokenizer.json",
    log:
        "<logs>/import_tokenizer.log",
    benchmark:
        "<benchmarks>/import_tokenizer.tsv"
    localrule: ONLINE is None
    conda:
        "../envs/bloomery.yaml"
    resources:
        **fixed_job(mem_mb=4000, runtime=60, place=ONLINE),
    message:
        "import the tokenizer"
    shell:
        "bloomery tokenizer import --config {input.config:q} --result {output:q} > {log:q} 2>&1"


if EXISTING_TOKENIZER:

    ruleorder: import_tokenizer > train_tokenizer

else:

    ruleorder: train_tokenizer > import_tokenizer


# The check follows the report, so that the report's page exists even if the check fails. Without limits, the check does
# not wait for the report.
rule check_tokenizer:
    input:
        config="<run>/config/tokenizer_report.json",
        report="<run>/results/report/tokenizer.json" if GATE else [],
    output:
        # `update` keeps the previous verdict if the check fails. If the file were removed, all text would be encoded
        # again after a later check passes.
        verdict=update("<run>/tokenizer/gate.json"),
        # After a failed check, Snakemake restores the previous verdict with a new time, so it looks up to date. The
        # file gate.kept is then missing, so the next run checks again.
        kept=touch("<run>/tokenizer/gate.kept"),
    log:
        "<logs>/check_tokenizer.log",
    localrule: True
    conda:
        "../envs/bloomery.yaml"
    params:
        report=["--report", RUN.report / "tokenizer.json"] if GATE else [],
    message:
        "check the tokenizer against its limits"
    shell:
        "bloomery tokenizer check {params.report:q} --config {input.config:q} --output {output.verdict:q}"
        " > {log:q} 2>&1"


rule tokenizer:
    input:
        rules.corpus.input,
        (
            []
            if EXISTING_TOKENIZER
            else collect(rules.count_pretokens.output, zip, **SHARDS)
        ),
        (
            rules.import_tokenizer.output
            if EXISTING_TOKENIZER
            else rules.train_tokenizer.output
        ),
        rules.report_tokenizer.output if PARTS else [],
        rules.check_tokenizer.output,
        TOKENIZER_PAGE,
    message:
        "tokenizer: every output exists"
