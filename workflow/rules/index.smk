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
    group:
        "encode"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job(mem_mb=4000, runtime=240),
    message:
        "encode {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery index encode --tokenizer {input.tokenizer:q} --input {input.clean:q} --output {output.idx:q}"
        " 2>&1 | tee {log:q} >&2"


rule build_index:
    input:
        config="<run>/config/index.json",
        parts="<run>/config/parts.json",
        tokenizer="<run>/tokenizer/tokenizer.json",
        mixture="<run>/corpus/mixture.json",
        tokens=every_shard("<run>/index/tokens/{source}/{part}.idx"),
    output:
        index="<run>/index/index.json",
        arrays=directory("<run>/index/arrays"),
    log:
        "<logs>/build_index.log",
    benchmark:
        "<benchmarks>/build_index.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job(mem_mb=16000, runtime=240),
    params:
        index=run_folder("index"),
    message:
        "build the index"
    shell:
        "bloomery index build --config {input.config:q} --index {params.index:q} --parts {input.parts:q}"
        " --mixture {input.mixture:q} --tokenizer {input.tokenizer:q} --output {output.index:q} 2>&1 | tee {log:q} >&2"


# Every promise of the index, and the digest of every file, before a GPU is asked for: the token files are read once more.
rule verify_index:
    input:
        "<run>/index/index.json",
    output:
        "<run>/index/verified.json",
    log:
        "<logs>/verify_index.log",
    benchmark:
        "<benchmarks>/verify_index.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job(mem_mb=4000, runtime=240),
    params:
        index=run_folder("index"),
    message:
        "verify the index"
    shell:
        "bloomery index verify --index {params.index:q} --json 2> >(tee {log:q} >&2) > {output:q}"


rule index:
    input:
        rules.tokenizer.input,
        collect(rules.encode.output, zip, **SHARDS),
        rules.build_index.output,
        rules.verify_index.output,
    message:
        "index: everything is there"
