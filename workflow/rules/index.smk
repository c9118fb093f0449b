# Encode text to token files (Megatron .bin/.idx), or adopt existing token files. Then build and verify the index of
# training samples before training starts.


rule encode:
    input:
        tokenizer="<run>/results/tokenizer.json",
        # `ancient`: a new report or new limits must not cause the text to be encoded again.
        gate=ancient("<run>/tokenizer/gate.json"),
        clean=shards_of_pair,
        survivors=collect(
            "<run>/corpus/duplicates/survivors-{partition}.parquet",
            partition=PARTITIONS,
        ),
    output:
        tokens="<run>/index/tokens/{source}/{part}.bin",
        documents="<run>/index/tokens/{source}/{part}.documents.parquet",
        manifest="<run>/index/tokens/{source}/{part}.documents.json",
        idx="<run>/index/tokens/{source}/{part}.idx",
    log:
        "<logs>/encode/{source}/{part}.log",
    benchmark:
        "<benchmarks>/encode/{source}/{part}.tsv"
    wildcard_constraints:
        source=rule_inputs.one_of(ENCODED_PAIRS["source"]),
    group:
        "encode"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("encode", group="encode"),
    params:
        tokenizer=run_folder("tokenizer"),
        survivors=file_options("survivors"),
    message:
        "encode the texts of {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery encode {input.clean:q} --tokenizer {params.tokenizer:q} {params.survivors:q} --output {output.idx:q}"
        " > {log:q} 2>&1"


# Verify a pair of token files and link it. The files themselves are neither moved nor changed.
rule adopt_tokens:
    input:
        config="<run>/config/adopt/{source}/{part}.json",
        files=files_of_part,
        tokenizer="<run>/results/tokenizer.json",
    output:
        tokens="<run>/index/tokens/{source}/{part}.bin",
        documents="<run>/index/tokens/{source}/{part}.documents.parquet",
        manifest="<run>/index/tokens/{source}/{part}.documents.json",
        idx="<run>/index/tokens/{source}/{part}.idx",
    log:
        "<logs>/adopt_tokens/{source}/{part}.log",
    benchmark:
        "<benchmarks>/adopt_tokens/{source}/{part}.tsv"
    wildcard_constraints:
        source=rule_inputs.one_of(ADOPTED_PAIRS["source"]),
    group:
        "encode"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("adopt_tokens", group="encode"),
    params:
        tokenizer=run_folder("tokenizer"),
        options=adopt_options,
    message:
        "check and link the token files {wildcards.source}/{wildcards.part}"
    shell:
        "bloomery index adopt {input.files[0]:q} --tokenizer {params.tokenizer:q} {params.options:q}"
        " --output {output.idx:q} > {log:q} 2>&1"


# The index gets hard links to the token files. So the index stays complete when a later `encode` replaces or deletes
# token files.
rule build_index:
    input:
        config="<run>/config/index.json",
        parts="<run>/config/token_files.json",
        tokenizer="<run>/results/tokenizer.json",
        mixture="<run>/corpus/mixture.json",
        tokens=collect("<run>/index/tokens/{source}/{part}.idx", zip, **ENCODED_PAIRS),
        adopted=collect(rules.adopt_tokens.output.idx, zip, **ADOPTED_PAIRS),
    output:
        "<run>/results/index.json",
    log:
        "<logs>/build_index.log",
    benchmark:
        "<benchmarks>/build_index.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("build_index"),
    params:
        index=run_folder("index"),
        tokenizer=run_folder("tokenizer"),
    message:
        "build the index of training samples"
    shell:
        "bloomery index build --config {input.config:q} --index {params.index:q} --parts {input.parts:q}"
        " --mixture {input.mixture:q} --tokenizer {params.tokenizer:q} --result {output:q} > {log:q} 2>&1"


# Check the index and the digest of every token file before a job requests a GPU. This reads the token files once more.
rule verify_index:
    input:
        "<run>/results/index.json",
    output:
        "<run>/index/verified.json",
    log:
        "<logs>/verify_index.log",
    benchmark:
        "<benchmarks>/verify_index.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        **job("verify_index"),
    params:
        index=run_folder("index"),
    message:
        "verify the index of training samples"
    shell:
        "bloomery index verify --index {params.index:q} --json > {output:q} 2> {log:q}"


rule index:
    input:
        rules.tokenizer.input,
        collect(rules.encode.output, zip, **ENCODED_PAIRS),
        collect(rules.adopt_tokens.output, zip, **ADOPTED_PAIRS),
        rules.build_index.output,
        rules.verify_index.output,
    message:
        "index: every output exists"
