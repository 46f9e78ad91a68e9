//! `RowDigests`: the digests of rows that stand as columns of Arrow, a column in one call.

use diskstream_core::digest_rows::{self, Known, Misfit, Names, Texts};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors;

/// Of some rows of an archive.
#[pyclass(module = "diskstream._native")]
pub struct RowDigests {
    rows: digest_rows::RowDigests,
}

type Bytes<'py> = PyReadonlyArray1<'py, u8>;
type Offsets<'py> = PyReadonlyArray1<'py, i32>;
type Words<'py> = PyReadonlyArray1<'py, u64>;
/// Bits, and which of them is the first row's.
type Validity<'py> = Option<(Bytes<'py>, usize)>;

fn misfit(py: Python<'_>) -> PyErr {
    errors::argument(py, "columns that do not fit: offsets beyond their bytes, or fewer values than rows")
}

fn known<'a>(validity: &'a Validity<'_>) -> PyResult<Option<Known<'a>>> {
    let one = |(bits, first): &'a (Bytes<'_>, usize)| Ok(Known { bits: bits.as_slice()?, first: *first });
    validity.as_ref().map(one).transpose()
}

fn texts<'a>((offsets, data): &'a (Offsets<'_>, Bytes<'_>)) -> PyResult<Texts<'a>> {
    Ok(Texts { offsets: offsets.as_slice()?, data: data.as_slice()? })
}

fn done(py: Python<'_>, found: Result<(), Misfit>) -> PyResult<()> {
    found.map_err(|_| misfit(py))
}

#[pymethods]
impl RowDigests {
    #[new]
    fn new(py: Python<'_>, ms: Words<'_>, seq: Words<'_>) -> PyResult<RowDigests> {
        let (ms, seq) = (ms.as_slice()?, seq.as_slice()?);
        let rows = py.detach(|| digest_rows::RowDigests::new(ms, seq)).map_err(|_| misfit(py))?;
        Ok(RowDigests { rows })
    }

    /// Takes in numbers, as their bits.
    fn numbers(&mut self, py: Python<'_>, name: &[u8], validity: Validity<'_>, bits: Words<'_>) -> PyResult<()> {
        let (known, bits) = (known(&validity)?, bits.as_slice()?);
        done(py, py.detach(|| self.rows.numbers(name, known, bits)))
    }

    /// Takes in numbers of two words each.
    fn decimals(&mut self, py: Python<'_>, name: &[u8], validity: Validity<'_>, words: Words<'_>) -> PyResult<()> {
        let (known, words) = (known(&validity)?, words.as_slice()?);
        done(py, py.detach(|| self.rows.decimals(name, known, words)))
    }

    /// Takes in bytes or text.
    fn texts(
        &mut self,
        py: Python<'_>,
        name: &[u8],
        validity: Validity<'_>,
        values: (Offsets<'_>, Bytes<'_>),
    ) -> PyResult<()> {
        let (known, values) = (known(&validity)?, texts(&values)?);
        done(py, py.detach(|| self.rows.texts(name, known, values)))
    }

    /// Takes in lists of pairs of names and values; with `places`, each name is the one at its place of `names`.
    #[pyo3(signature = (name, validity, bounds, names, values, places=None))]
    #[allow(clippy::too_many_arguments)] // as Arrow lays a column out
    fn lists(
        &mut self,
        py: Python<'_>,
        name: &[u8],
        validity: Validity<'_>,
        bounds: Offsets<'_>,
        names: (Offsets<'_>, Bytes<'_>),
        values: (Offsets<'_>, Bytes<'_>),
        places: Option<Offsets<'_>>,
    ) -> PyResult<()> {
        let (known, bounds, values) = (known(&validity)?, bounds.as_slice()?, texts(&values)?);
        let names = match &places {
            None => Names::Each(texts(&names)?),
            Some(places) => Names::Among(places.as_slice()?, texts(&names)?),
        };
        done(py, py.detach(|| self.rows.lists(name, known, bounds, (names, values))))
    }

    /// Of each row, in both lanes.
    fn rows<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>) {
        let [first, second] = py.detach(|| self.rows.rows());
        (first.into_pyarray(py), second.into_pyarray(py))
    }

    /// Of all rows together.
    fn total(&self) -> (u64, u64) {
        let [first, second] = self.rows.total();
        (first, second)
    }
}
