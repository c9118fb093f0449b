# Model and logs go to a Hub when one is configured, else to a local folder of the same layout. Nothing without its proof.


rule publish_run:
    input:
        config="<run>/config/publish.json",
        parity=f"<run>/export/{MODEL}/parity.json",
        finished="<run>/train/finished.json",
    output:
        "<run>/published/publish.json",
    log:
        "<logs>/publish_run.log",
    benchmark:
        "<benchmarks>/publish_run.tsv"
    conda:
        "../envs/bloomery.yaml"
    resources:
        mem_mb=2000,
        runtime=240,
    params:
        run=run_folder(),
    message:
        "publish {MODEL}"
    shell:
        "bloomery publish run --config {input.config:q} --run {params.run:q} --output {output:q} 2>&1 | tee {log:q} >&2"


rule publish:
    input:
        rules.export.input,
        rules.publish_run.output,
    message:
        "publish: everything is there"
