//! `cargo run -p diskstream-fuzz --bin seeds DIR`: writes what the encoders make, in a folder for each target.

use std::io;
use std::path::PathBuf;

fn main() -> io::Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).ok_or_else(|| io::Error::other("the folder to write to?"))?);
    for (number, (target, bytes)) in diskstream_fuzz::seeds::all().into_iter().enumerate() {
        std::fs::create_dir_all(folder.join(target))?;
        std::fs::write(folder.join(target).join(format!("seed-{number:02}")), bytes)?;
    }
    Ok(())
}
