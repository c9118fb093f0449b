# Pre-token counts of each shard, weighed by the mixture, become a byte-level BPE tokenizer.


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
        **job(mem_mb=4000, runtime=120, rules_in_group=2),
    message:
        "count pre-tokens of {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery tokenizer count --config {input.config:q} --input {input.clean:q} --output {output.table:q}"
        " 2>&1 | tee {log:q} >&2"


rule train_tokenizer:
    input:
        config="<run>/config/tokenizer.json",
        parts="<run>/config/parts.json",
        counts=every_shard("<run>/tokenizer/counts/{source}/{part}.parquet"),
        mixture="<run>/corpus/mixture.json",
    output:
        tokenizer="<run>/tokenizer/tokenizer.json",
        config="<run>/tokenizer/tokenizer_config.json",
        special="<run>/tokenizer/special_tokens_map.json",
    log:
        "<logs>/train_tokenizer.log",
    benchmark:
        "<benchmarks>/train_tokenizer.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job(mem_mb=16000, runtime=720),
    params:
        counts=run_folder("tokenizer", "counts"),
    message:
        "train the tokenizer"
    shell:
        "bloomery tokenizer train --config {input.config:q} --counts {params.counts:q} --parts {input.parts:q}"
        " --mixture {input.mixture:q} --output {output.tokenizer:q} 2>&1 | tee {log:q} >&2"


rule tokenizer:
    input:
        rules.corpus.input,
        collect(rules.count_pretokens.output, zip, **SHARDS),
        rules.train_tokenizer.output,
        rules.report_tokenizer.output,
    message:
        "tokenizer: everything is there"
