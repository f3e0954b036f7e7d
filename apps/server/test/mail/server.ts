// A real SMTP server for tests that records received mails. Its certificate is signed by a test authority (valid 2020
// to 2120; its key was deleted), which the client process must trust.
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
  /** The raw message. */
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
  /** The name in its certificate; `unsigned` is a self-signed one. */
  certificate?: 'localhost' | 'elsewhere' | 'unsigned'
  login?: { user: string; password: string }
  /** Throws the SMTP error for a recipient. */
  onRecipient?: (address: string) => void
  /** Awaited before the server accepts a message; throws the SMTP error instead. */
  onMessage?: (received: Received) => void | Promise<void>
}

const file = (name: string) => readFileSync(join(import.meta.dirname, `${name}.pem`), 'utf8')

/** Applies to all later connections of this process. */
export const trustTestAuthority = () =>
  tls.setDefaultCACertificates([...tls.getCACertificates('default'), file('authority')])

/** Lets projects of a platform use servers on this machine. */
export const allowsLocalMail = { PLATFORM_OUTBOUND_ALLOW: '127.0.0.1/32,::1/128' }
/** An allowed mail port above the ephemeral range, where no process listens. */
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
