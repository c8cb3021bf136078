//! Bounds-checked reading and writing of big-endian fields.

/// The input ends within the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// The field does not fit into the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

/// Takes fields off the front of a byte string.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Takes `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (field, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*field)
    }

    /// Takes one byte.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Takes a 16-bit number.
    pub fn be16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// Takes a 24-bit number.
    pub fn be24(&mut self) -> Result<u32, Truncated> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Takes a 32-bit number.
    pub fn be32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// Takes a 64-bit number.
    pub fn be64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }

    /// Drops `count` bytes.
    pub fn skip(&mut self, count: usize) -> Result<(), Truncated> {
        self.rest = self.rest.get(count..).ok_or(Truncated)?;
        Ok(())
    }

    /// The next byte, left where it is.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Bytes not yet taken.
    pub const fn left(&self) -> usize {
        self.rest.len()
    }
}

/// Puts fields one after the other into a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    rest: &'a mut [u8],
    written: usize,
}

impl<'a> Writer<'a> {
    /// A writer at the start of `buffer`.
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self { rest: buffer, written: 0 }
    }

    /// Puts bytes.
    pub fn bytes(&mut self, field: &[u8]) -> Result<(), NoRoom> {
        let rest = core::mem::take(&mut self.rest);
        match rest.split_at_mut_checked(field.len()) {
            Some((target, rest)) => {
                target.copy_from_slice(field);
                self.rest = rest;
                self.written += field.len();
                Ok(())
            }
            // The rest stays taken: once a field did not fit, none after it does.
            None => Err(NoRoom),
        }
    }

    /// Puts one byte.
    pub fn u8(&mut self, value: u8) -> Result<(), NoRoom> {
        self.bytes(&[value])
    }

    /// Puts a 16-bit number.
    pub fn be16(&mut self, value: u16) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    /// Puts the low 24 bits of a number.
    pub fn be24(&mut self, value: u32) -> Result<(), NoRoom> {
        let [_, a, b, c] = value.to_be_bytes();
        self.bytes(&[a, b, c])
    }

    /// Puts a 32-bit number.
    pub fn be32(&mut self, value: u32) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    /// Puts a 64-bit number.
    pub fn be64(&mut self, value: u64) -> Result<(), NoRoom> {
        self.bytes(&value.to_be_bytes())
    }

    /// Puts `N` zero bytes.
    pub fn zeros<const N: usize>(&mut self) -> Result<(), NoRoom> {
        self.bytes(&[0; N])
    }

    /// Bytes put so far.
    pub const fn written(&self) -> usize {
        self.written
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{NoRoom, Reader, Truncated, Writer};

    #[test]
    fn fields_are_big_endian_both_ways() {
        let mut buffer = [0xff; 18];
        let mut writer = Writer::new(&mut buffer);
        writer.u8(0x01).unwrap();
        writer.be16(0x0203).unwrap();
        writer.be24(0xff04_0506).unwrap();
        writer.be32(0x0708_090a).unwrap();
        writer.be64(0x0b0c_0d0e_0f10_1112).unwrap();
        assert_eq!(writer.written(), 18);
        assert_eq!(buffer, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]);

        let mut reader = Reader::new(&buffer);
        assert_eq!(reader.u8(), Ok(0x01));
        assert_eq!(reader.be16(), Ok(0x0203));
        assert_eq!(reader.be24(), Ok(0x04_0506));
        assert_eq!(reader.be32(), Ok(0x0708_090a));
        assert_eq!(reader.left(), 8);
        assert_eq!(reader.be64(), Ok(0x0b0c_0d0e_0f10_1112));
        assert_eq!(reader.u8(), Err(Truncated));
    }

    #[test]
    fn a_field_that_does_not_fit_is_refused_whole() {
        let mut buffer = [0; 3];
        let mut writer = Writer::new(&mut buffer);
        writer.u8(7).unwrap();
        assert_eq!(writer.be32(1), Err(NoRoom));
        assert_eq!(writer.written(), 1);
        assert_eq!(buffer, [7, 0, 0]);
        let mut reader = Reader::new(&buffer);
        assert_eq!(reader.be32(), Err(Truncated));
        assert_eq!(reader.left(), 3);
        assert_eq!(reader.skip(4), Err(Truncated));
        assert_eq!(reader.skip(3), Ok(()));
        assert_eq!(reader.left(), 0);
    }
}
