# Text becomes token files (Megatron .bin/.idx), and these an index of training samples: a job of its own, before training.


rule encode:
    input:
        tokenizer="<run>/tokenizer/tokenizer.json",
        clean="<run>/corpus/clean/{source}/{part}.parquet",
    output:
        tokens="<run>/index/tokens/{source}/{part}.bin",
        documents="<run>/index/tokens/{source}/{part}.documents.parquet",
        manifest="<run>/index/tokens/{source}/{part}.documents.json",
        idx="<run>/index/tokens/{source}/{part}.idx",
    log:
        "<logs>/encode/{source}/{part}.log",
    benchmark:
        "<benchmarks>/encode/{source}/{part}.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        mem_mb=4000,
        runtime=240,
    message:
        "encode {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery index encode --tokenizer {input.tokenizer} --input {input.clean} --output {output.idx}"
        " 2>&1 | tee {log} >&2"


rule build_index:
    input:
        config="<run>/config/index.json",
        parts="<run>/config/parts.json",
        tokenizer="<run>/tokenizer/tokenizer.json",
        mixture="<run>/corpus/mixture.json",
        tokens=every_shard("<run>/index/tokens/{source}/{part}.idx"),
    output:
        "<run>/index/index.json",
    log:
        "<logs>/build_index.log",
    benchmark:
        "<benchmarks>/build_index.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        index=run_folder("index"),
    message:
        "build the index"
    shell:
        "bloomery index build --config {input.config} --index {params.index} --parts {input.parts}"
        " --mixture {input.mixture} --tokenizer {input.tokenizer} --output {output} 2>&1 | tee {log} >&2"


rule index:
    input:
        rules.tokenizer.input,
        collect(rules.encode.output, zip, **SHARDS),
        rules.build_index.output,
    message:
        "index: everything is there"
