// What goes over a channel of Redis: who says it, and what.

interface Envelope {
  node: string
  message: Buffer
}

/** Another one means something else: nodes of two releases may run beside each other for a while. */
const format = 1
const nodeBytes = 8

export function sealEnvelope(node: string, message: Buffer): Buffer {
  const envelope = Buffer.allocUnsafe(1 + nodeBytes + message.length)
  envelope[0] = format
  envelope.write(node, 1, 'hex')
  message.copy(envelope, 1 + nodeBytes)
  return envelope
}

/** Undefined for what no node of this release has sent. */
export function openEnvelope(bytes: Buffer): Envelope | undefined {
  if (bytes.length < 1 + nodeBytes || bytes[0] !== format) return
  return { node: bytes.toString('hex', 1, 1 + nodeBytes), message: bytes.subarray(1 + nodeBytes) }
}
