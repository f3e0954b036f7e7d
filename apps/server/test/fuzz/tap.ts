// A proxy between the server and Postgres that records every statement and its parameters.
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'
import { Frames } from '#src/kernel/postgres/wire/frames.ts'

export interface Tap {
  /** The address of the proxy. */
  address: ServerAddress
  close(): Promise<void>
}

export interface TapListener {
  /** Called for a Parse or a simple Query. */
  onStatement(text: string, login: string): void
  onValues(bytes: Buffer): void
  /** Called for each new connection, to follow the order of its statements. */
  onSession?(login: string): SessionListener
}

export interface SessionListener {
  /** Called for a Bind, with the text of its statement. A named statement stays prepared. */
  onRun(text: string, isNamed: boolean, values: Buffer): void
  /** Called for a Sync, which ends the transaction. */
  onSync(): void
}

const parse = 0x50
const query = 0x51
const bind = 0x42
const close = 0x43
const sync = 0x53
const protocolVersion = 196608

export async function openTap(postgres: ServerAddress, listener: TapListener): Promise<Tap> {
  const host = mkdtempSync(join(tmpdir(), 'plinth-tap-'))
  const socketFile = `.s.PGSQL.${postgres.port}`
  const open = new Set<Socket>()
  const server = createServer(client => {
    const upstream = connect(`${postgres.host}/${socketFile}`)
    const listen = reader(listener)
    client.on('data', listen)
    client.pipe(upstream).pipe(client)
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      open.add(socket)
      socket.on('error', () => other.destroy())
      socket.on('close', () => {
        open.delete(socket)
        other.destroy()
      })
    }
  })
  await new Promise<void>(resolve => server.listen(join(host, socketFile), resolve))
  return {
    address: { ...postgres, host },
    async close() {
      const closed = new Promise(resolve => server.close(resolve))
      for (const socket of open) socket.destroy()
      await closed
      rmSync(host, { recursive: true, force: true })
    },
  }
}

/** Parses the data of a client from its first byte. */
function reader(listener: TapListener): (chunk: Buffer) => void {
  const { onStatement, onValues } = listener
  const frames = new Frames()
  let login: string | undefined
  let session: SessionListener | undefined
  /** The texts of the prepared statements. */
  const prepared = new Map<string, string>()
  let begun: Buffer = Buffer.alloc(0)
  const onFrame = (type: number, bytes: Buffer, start: number, end: number) => {
    const textAt = (at: number) => bytes.toString('utf8', at, bytes.indexOf(0, at))
    switch (type) {
      case parse: {
        const text = textAt(bytes.indexOf(0, start) + 1)
        if (session) prepared.set(textAt(start), text)
        return onStatement(text, login!)
      }
      case query:
        return onStatement(textAt(start), login!)
      case bind: {
        const values = bytes.subarray(start, end)
        const name = textAt(bytes.indexOf(0, start) + 1)
        session?.onRun(prepared.get(name) ?? '', name !== '', values)
        return onValues(values)
      }
      case close:
        return void prepared.delete(textAt(start + 1))
      case sync:
        return session?.onSync()
    }
  }
  return chunk => {
    if (login !== undefined) return frames.push(chunk, onFrame)
    begun = Buffer.concat([begun, chunk])
    // The startup message has no type byte: its length, the protocol version, then names and values. Other first messages,
    // such as a cancel request, are ignored.
    if (begun.length < 8 || begun.length < begun.readInt32BE(0)) return
    const length = begun.readInt32BE(0)
    if (begun.readInt32BE(4) === protocolVersion) {
      login = loginIn(begun.subarray(8, length))
      session = listener.onSession?.(login)
    }
    const rest = begun.subarray(length)
    begun = Buffer.alloc(0)
    if (login !== undefined && rest.length > 0) frames.push(rest, onFrame)
  }
}

function loginIn(parameters: Buffer): string {
  const texts = parameters.toString('utf8').split('\0')
  return texts[texts.indexOf('user') + 1] ?? ''
}
