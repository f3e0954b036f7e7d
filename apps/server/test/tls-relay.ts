import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { TLSSocket } from 'node:tls'
import type { ServerAddress } from '#src/kernel/postgres/server-address.ts'

const pem = (name: string) => readFileSync(join(import.meta.dirname, 'mail', `${name}.pem`), 'utf8')

/** A proxy that accepts TLS and forwards to the Postgres of this run. */
export async function openTlsRelay({ host, port, ...login }: ServerAddress) {
  const open = new Set<Socket>()
  const keep = <S extends Socket>(socket: S): S => {
    open.add(socket.on('error', () => {}).on('close', () => open.delete(socket)))
    return socket
  }
  const relay = createServer(client => {
    keep(client).once('data', () => {
      client.write('S')
      const secure = keep(
        new TLSSocket(client, { isServer: true, key: pem('localhost'), cert: pem('localhost') }),
      )
      const postgres = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host)
      secure.pipe(keep(postgres)).pipe(secure)
      secure.on('close', () => postgres.destroy())
    })
  })
  await once(relay.listen(0, '127.0.0.1'), 'listening')
  const address: ServerAddress = {
    ...login,
    host: '127.0.0.1',
    port: (relay.address() as AddressInfo).port,
    tls: { rejectUnauthorized: true, ca: pem('authority') },
  }
  const close = () => {
    for (const socket of open) socket.destroy()
    return new Promise(resolve => relay.close(resolve))
  }
  return { address, close }
}
