import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'

/** 57P03: starting up, recovering or shutting down. Any other answer comes from a server that is open. */
const cannotConnectNow = Buffer.from('\0C57P03\0')

export async function isReady(clusterDir: string, socketDir: string, port: number): Promise<boolean> {
  return claimsReady(clusterDir) && (await answers(join(socketDir, `.s.PGSQL.${port}`)))
}

/** Asked before the server itself is: while it recovers, each question would leave a line in its log. */
function claimsReady(clusterDir: string): boolean {
  try {
    const status = readFileSync(join(clusterDir, 'postmaster.pid'), 'utf8').split('\n')[7] ?? ''
    return ['ready', 'standby'].includes(status.trim())
  } catch {
    return false
  }
}

/**
 * Sends a startup packet and sees whether the server asks who we are. An SSLRequest would not do: it is
 * answered before the server looks at its own state. Hanging up at that point leaves nothing in the log.
 */
function answers(socketPath: string): Promise<boolean> {
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
      // An error is followed by the end of the connection; wait for it so as to have its code.
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
