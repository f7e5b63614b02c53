//! Compiles every `redlatch/v1/*.proto`, without a protoc binary, for both worlds.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use prost::Message;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new("redlatch/v1");
    println!("cargo::rerun-if-changed={}", folder.display());
    let protos = protos_in(folder)?;
    let includes = [PathBuf::from(".")];

    let descriptors = protox::compile(&protos, &includes)?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let descriptor_path = out.join("redlatch_descriptor.bin");
    fs::write(&descriptor_path, descriptors.encode_to_vec())?;

    // Writes $OUT_DIR/redlatch.v1.rs (tonic) and $OUT_DIR/sim/redlatch.v1.rs (simulated).
    madsim_tonic_build::configure()
        .file_descriptor_set_path(&descriptor_path)
        .skip_protoc_run()
        .compile_protos(&protos, &includes)?;
    make_servers_strict(&out.join("redlatch.v1.rs"))
}

/// Lets the generated servers decode with `strict::StrictCodec`. The generator has no setting for
/// it: it names one codec for clients and servers alike.
fn make_servers_strict(generated: &Path) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(generated)?;
    let mut server = false;
    let mut strict = String::with_capacity(text.len());
    for line in text.lines() {
        if let Some(name) = line.trim().strip_prefix("pub mod ") {
            server = name.contains("_server");
        }
        let line = if server {
            line.replace("tonic_prost::ProstCodec", "crate::strict::StrictCodec")
        } else {
            line.to_owned()
        };
        strict.push_str(&line);
        strict.push('\n');
    }
    fs::write(generated, strict)?;
    Ok(())
}

/// All `.proto` files of `folder`, sorted, so that the build does not depend on directory order.
fn protos_in(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut protos = Vec::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "proto")
        {
            println!("cargo::rerun-if-changed={}", path.display());
            protos.push(path);
        }
    }
    protos.sort();
    Ok(protos)
}
