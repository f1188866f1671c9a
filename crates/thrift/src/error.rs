/// Why bytes are not what the protocol allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ThriftError {
    /// The bytes end within a value.
    #[error("the message is cut short")]
    Short,
    /// A variable-length number is longer than its type allows.
    #[error("a number is too long for its type")]
    Number,
    /// A type that does not exist.
    #[error("type {0} does not exist")]
    Type(u8),
    /// A field id outside 16 bits.
    #[error("a field id is outside 16 bits")]
    FieldId,
    /// A boolean that is neither true nor false.
    #[error("{0} is not a boolean")]
    Boolean(u8),
    /// Text that is not UTF-8.
    #[error("a string is not UTF-8")]
    Text,
    /// A collection announces more elements than its bytes can hold.
    #[error("a collection of {0} elements does not fit its bytes")]
    Count(u64),
    /// Nesting beyond [`crate::DEPTH_MAX`].
    #[error("nested too deep")]
    Depth,
    /// A message that does not begin as the compact protocol says.
    #[error("not a message of the compact protocol")]
    Protocol,
    /// A frame larger than the bound of its reader.
    #[error("a frame of {bytes} bytes is above the bound of {max}")]
    Frame {
        /// Announced size.
        bytes: u32,
        /// Largest size allowed.
        max: u32,
    },
}

impl ThriftError {
    /// A word for counting.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Short => "short-message",
            Self::Frame { .. } => "frame-too-large",
            _ => "garbage",
        }
    }
}
