// A real DNS server for IPv4 addresses. Each name has a list of answers, which are used in order. The last one is repeated.
import { createSocket } from 'node:dgram'
import { promises as dns } from 'node:dns'
import { once } from 'node:events'
import type { Address } from '#src/kernel/outbound/resolve.ts'

export interface NameServer {
  /** The answers of each name. An answer is a list of addresses. */
  names: Map<string, string[][]>
  /** Queried names, in order. */
  queried: string[]
  /** Host and port. */
  address: string
  /** Resolves a name with this server. */
  resolve(name: string): Promise<readonly Address[]>
  close(): Promise<void>
}

export async function startNameServer(): Promise<NameServer> {
  const names = new Map<string, string[][]>()
  const queried: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', (query, { port, address }) => {
    const { name, end } = questionOf(query)
    queried.push(name)
    const answers = names.get(name) ?? []
    const addresses = (answers.length > 1 ? answers.shift() : answers[0]) ?? []
    socket.send(answerTo(query.subarray(0, end), addresses), port, address)
  })
  socket.bind(0, '127.0.0.1')
  await once(socket, 'listening')
  const address = `127.0.0.1:${socket.address().port}`
  const resolver = new dns.Resolver()
  resolver.setServers([address])
  return {
    names,
    queried,
    address,
    resolve: async name => (await resolver.resolve4(name)).map(address => ({ address, family: 4 })),
    async close() {
      socket.close()
      await once(socket, 'close')
    },
  }
}

const headerBytes = 12

function questionOf(query: Buffer): { name: string; end: number } {
  const labels: string[] = []
  let at = headerBytes
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  return { name: labels.join('.'), end: at + 5 }
}

/** The question section and one record with TTL 0 per address. */
function answerTo(question: Buffer, addresses: readonly string[]): Buffer {
  const header = Buffer.from(question.subarray(0, headerBytes))
  header.writeUInt16BE(addresses.length > 0 ? 0x8180 : 0x8183, 2)
  header.writeUInt16BE(1, 4)
  header.writeUInt16BE(addresses.length, 6)
  header.writeUInt32BE(0, 8)
  const records = addresses.map(address =>
    Buffer.from([0xc0, 0x0c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]),
  )
  return Buffer.concat([header, question.subarray(headerBytes), ...records])
}
