// The bytes published on a Redis channel: a format byte, the id of the sending node, and the payload.

interface Packet {
  node: string
  payload: Buffer
}

/** Nodes of two releases may run at the same time. A release that changes the layout increases this number. */
const format = 1
const nodeBytes = 8

export function encodePacket(node: string, payload: Buffer): Buffer {
  const packet = Buffer.allocUnsafe(1 + nodeBytes + payload.length)
  packet[0] = format
  packet.write(node, 1, 'hex')
  payload.copy(packet, 1 + nodeBytes)
  return packet
}

/** Undefined for bytes that no node with this packet format has published. */
export function decodePacket(bytes: Buffer): Packet | undefined {
  if (bytes.length < 1 + nodeBytes || bytes[0] !== format) return
  return { node: bytes.toString('hex', 1, 1 + nodeBytes), payload: bytes.subarray(1 + nodeBytes) }
}
