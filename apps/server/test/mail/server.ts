// A real SMTP server for a test, and the mails it has taken. Its certificate is signed by an authority of our own
// (valid 2020 to 2120; its key was thrown away), which the process that trusts it has to be told of.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import tls from 'node:tls'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'

export interface Received {
  from: string
  to: string[]
  /** The user who logged in. */
  user: string | undefined
  isEncrypted: boolean
  /** As it came over the wire. */
  source: string
  mail: Email
}

export interface MailServer {
  port: number
  received: Received[]
  close(): Promise<void>
}

interface MailServerOptions {
  encryption?: 'none' | 'starttls' | 'tls'
  /** The name its certificate is for; `unsigned` is one it has made itself. */
  certificate?: 'localhost' | 'elsewhere' | 'unsigned'
  login?: { user: string; password: string }
  /** Throws what the server answers to a recipient. */
  onRecipient?: (address: string) => void
  /** What it waits for before it says that it has taken a message; throws what it answers instead. */
  onMessage?: (received: Received) => void | Promise<void>
}

const file = (name: string) => readFileSync(join(import.meta.dirname, `${name}.pem`), 'utf8')

/** For every connection this process makes from now on. */
export const trustTestAuthority = () =>
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), file('authority')])

/** For a platform whose projects may name the servers of this machine. */
export const allowsLocalMail = { PLATFORM_OUTBOUND_ALLOW: '127.0.0.1/32,::1/128' }
/** Allowed for mail, and nobody listens: it is above the ports that the system gives out. */
export const closedPort = 65_535

/** An answer of the server, such as 451 or 550. */
export const answer = (responseCode: number, text: string) => Object.assign(new Error(text), { responseCode })

export async function startMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const { encryption = 'none', certificate = 'localhost', login, onRecipient, onMessage } = options
  const received: Received[] = []
  const pem = certificate === 'unsigned' ? undefined : file(certificate)
  const settings: SMTPServerOptions = {
    secure: encryption === 'tls',
    ...(pem && { key: pem, cert: pem }),
    disabledCommands: [
      ...(encryption === 'starttls' ? [] : ['STARTTLS' as const]),
      ...(login ? [] : ['AUTH' as const]),
    ],
    allowInsecureAuth: true,
    logger: false,
    closeTimeout: 100,
    onAuth({ username, password }, _session, done) {
      if (username === login?.user && password === login?.password) done(null, { user: username })
      else done(answer(535, `5.7.8 ${username} with ${password} does not get in`))
    },
    onRcptTo({ address }, _session, done) {
      try {
        onRecipient?.(address)
        done()
      } catch (error) {
        done(error as Error)
      }
    },
    onData(stream, session, done) {
      const take = async () => {
        const source = await buffer(stream)
        const { mailFrom, rcptTo } = session.envelope
        const taken: Received = {
          from: mailFrom === false ? '' : mailFrom.address,
          to: rcptTo.map(({ address }) => address),
          user: session.user,
          isEncrypted: session.secure,
          source: source.toString('latin1'),
          mail: await PostalMime.parse(source),
        }
        await onMessage?.(taken)
        received.push(taken)
      }
      take().then(
        () => done(),
        error => done(error),
      )
    },
  }
  const server = new SMTPServer(settings)
  server.on('error', () => {}) // a client that hangs up, or refuses our certificate
  const listening = server.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  return {
    port: (listening.address() as AddressInfo).port,
    received,
    close: () => new Promise(resolve => server.close(() => resolve())),
  }
}
