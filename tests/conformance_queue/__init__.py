"""The queue protocol over real sockets: frames in, frames out."""
