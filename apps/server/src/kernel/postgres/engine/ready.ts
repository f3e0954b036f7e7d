import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'

/** 57P03: the server starts, recovers or shuts down. With any other answer it accepts connections. */
const cannotConnectNow = Buffer.from('\0C57P03\0')

export async function isReady(clusterDir: string, socketDir: string, port: number): Promise<boolean> {
  return hasReadyStatus(clusterDir) && (await acceptsConnections(join(socketDir, `.s.PGSQL.${port}`)))
}

/** Checked before connecting, because each connection during recovery would add a line to the log of Postgres. */
function hasReadyStatus(clusterDir: string): boolean {
  try {
    const status = readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8').split('\n')[7] ?? ''
    return ['ready', 'standby'].includes(status.trim())
  } catch {
    return false
  }
}

/**
 * Sends a startup packet and checks whether the server asks for authentication. An SSLRequest would not do, because the
 * server answers it in any state. Disconnecting at this point adds no line to the log.
 */
function acceptsConnections(socketPath: string): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect(socketPath)
    let answer = Buffer.alloc(0)
    const settle = () => {
      socket.destroy()
      resolve(answer.length > 0 && !answer.includes(cannotConnectNow))
    }
    socket.setTimeout(2000, settle)
    socket.once('connect', () => socket.write(startupPacket()))
    socket.on('error', settle)
    socket.once('close', settle)
    socket.on('data', chunk => {
      answer = Buffer.concat([answer, chunk])
      // The server closes the connection after an error. Wait for that, to have the whole message with its code.
      if (answer[0] !== 'E'.charCodeAt(0)) settle()
    })
  })
}

function startupPacket(): Buffer {
  const parameters = Buffer.from('user\0postgres\0database\0postgres\0\0')
  const head = Buffer.alloc(8)
  head.writeInt32BE(head.length + parameters.length, 0)
  head.writeInt32BE(196_608, 4)
  return Buffer.concat([head, parameters])
}
