// Encodes frames as a server sends them (RFC 6455 §5.2): unfragmented and unmasked. One encoded frame can be written to
// many sockets.

const lastFrame = 0x80
const text = 0x1
const binary = 0x2
const pong = 0xa

export const textFrame = (payload: string): Buffer => {
  const length = Buffer.byteLength(payload)
  const frame = allocateFrame(text, length)
  frame.write(payload, frame.length - length, 'utf8')
  return frame
}

/** A text frame whose middle is already encoded as UTF-8. */
export const textFrameAround = (before: string, middle: Buffer, after: string): Buffer => {
  const start = Buffer.byteLength(before)
  const length = start + middle.length + Buffer.byteLength(after)
  const frame = allocateFrame(text, length)
  const at = frame.length - length
  frame.write(before, at, 'utf8')
  middle.copy(frame, at + start)
  frame.write(after, at + start + middle.length, 'utf8')
  return frame
}

export const binaryFrame = (...parts: readonly Buffer[]): Buffer => bytesFrame(binary, parts)
export const pongFrame = (payload: Buffer): Buffer => bytesFrame(pong, [payload])

function bytesFrame(kind: number, parts: readonly Buffer[]): Buffer {
  let length = 0
  for (const part of parts) length += part.length
  const frame = allocateFrame(kind, length)
  let at = frame.length - length
  for (const part of parts) at += part.copy(frame, at)
  return frame
}

/** A frame with its header and space for the payload. */
function allocateFrame(kind: number, length: number): Buffer {
  const head = length < 126 ? 2 : length < 0x1_0000 ? 4 : 10
  const frame = Buffer.allocUnsafe(head + length)
  frame[0] = lastFrame | kind
  if (head === 2) frame[1] = length
  else if (head === 4) {
    frame[1] = 126
    frame.writeUInt16BE(length, 2)
  } else {
    frame[1] = 127
    frame.writeBigUInt64BE(BigInt(length), 2)
  }
  return frame
}
