# The last checkpoint becomes a transformers folder; parity.json, written last, proves it against the training's own logits.


rule export_model:
    input:
        config="<run>/config/export.json",
        finished="<run>/train/finished.json",
        tokenizer="<run>/tokenizer/tokenizer.json",
    output:
        report(
            f"<run>/export/{MODEL}/parity.json",
            caption="../report/parity.rst",
            category="Model",
            labels={"page": "Parity with the training's logits"},
        ),
    log:
        "<logs>/export_model.log",
    benchmark:
        "<benchmarks>/export_model.tsv"
    conda:
        "../envs/bloomery.yaml"
    threads: 2
    resources:
        mem_mb=16000,
        runtime=240,
    params:
        run=run_folder(),
    message:
        "export {MODEL}"
    shell:
        "bloomery export model --config {input.config} --run {params.run} --output {output} 2>&1 | tee {log} >&2"


rule export:
    input:
        rules.train.input,
        rules.export_model.output,
    message:
        "export: everything is there"
