// A real SMTP server on a free local port. It stores the mails of a project until a test takes them, and extracts link
// and code.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import PostalMime, { type Email } from 'postal-mime'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import type { TestPlatform } from './harness.ts'

export interface Message {
  /** The envelope's recipient, in lower case. */
  recipients: string[]
  /** The envelope's sender. */
  sender: string
  /** The user of the SMTP login. */
  user: string | undefined
  isEncrypted: boolean
  raw: string
  email: Email
  subject: string
  text: string
  html: string
  /** The first link to the platform's verify route. */
  link: string | undefined
  /** The first separate number of six digits. */
  code: string | undefined
}

export type Wanted = (message: Message) => boolean

export interface Mailbox {
  host: string
  port: number
  /** All received messages, taken or not. */
  received: readonly Message[]
  /** Waits for the next message to this address and takes it; `wanted` skips others. */
  next(address: string, wanted?: Wanted): Promise<Message>
  /** Takes the next message to this address with a code. */
  nextCode(address: string): Promise<{ code: string; message: Message }>
  /** Takes the next message to this address with a link. */
  nextLink(address: string): Promise<{ link: string; code: string | undefined; message: Message }>
  /** Messages to this address that no test has taken. */
  waiting(address: string): Message[]
  /** Configures a project to send its mail here. */
  servedBy(platform: TestPlatform, projectId: string, settings?: Record<string, unknown>): Promise<void>
  stop(): Promise<void>
}

/** Long enough for a loaded machine. */
const patienceMs = 60_000

export async function openMailbox(options: SMTPServerOptions = {}): Promise<Mailbox> {
  const received: Message[] = []
  const taken = new Set<string>()
  const arrivals = new Set<() => void>()
  const keyOf = (address: string, message: Message) => `${received.indexOf(message)} ${address}`

  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    onAuth: ({ username }, _session, done) => done(null, { user: username }),
    onData(stream, session, done) {
      const chunks: Buffer[] = []
      stream.on('data', (chunk: Buffer) => void chunks.push(chunk))
      stream.on('end', () => {
        const { envelope, user, secure } = session
        const raw = Buffer.concat(chunks)
        PostalMime.parse(raw).then(email => {
          received.push({
            recipients: envelope.rcptTo.map(({ address }) => address.toLowerCase()),
            sender: envelope.mailFrom ? envelope.mailFrom.address : '',
            user,
            isEncrypted: secure,
            raw: raw.toString('utf8'),
            ...readable(email),
          })
          for (const notify of arrivals) notify()
          done()
        }, done)
      })
    },
    ...options,
  })
  // A client that disconnects is not an error of the server.
  server.on('error', () => {})
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  const { port } = server.server.address() as AddressInfo

  const waiting = (address: string) =>
    received.filter(message => message.recipients.includes(address) && !taken.has(keyOf(address, message)))
  function take(address: string, wanted: Wanted): Message | undefined {
    const found = waiting(address).find(wanted)
    if (found) taken.add(keyOf(address, found))
    return found
  }
  function next(address: string, wanted: Wanted = () => true): Promise<Message> {
    const to = address.toLowerCase()
    const already = take(to, wanted)
    if (already) return Promise.resolve(already)
    return new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer)
        arrivals.delete(look)
      }
      const look = () => {
        const found = take(to, wanted)
        if (!found) return
        stop()
        resolve(found)
      }
      const timer = setTimeout(() => {
        stop()
        const seen = received.map(({ recipients, subject }) => `${recipients}: ${subject}`).slice(-20)
        reject(new Error(`no such mail came for ${to}; the last that came: ${JSON.stringify(seen)}`))
      }, patienceMs)
      arrivals.add(look)
    })
  }

  const mailbox: Mailbox = {
    host: '127.0.0.1',
    port,
    received,
    next,
    async nextCode(address) {
      const message = await next(address, ({ code }) => code !== undefined)
      return { message, code: message.code! }
    },
    async nextLink(address) {
      const message = await next(address, ({ link }) => link !== undefined)
      return { message, link: message.link!, code: message.code }
    },
    waiting: address => waiting(address.toLowerCase()),
    async servedBy(platform, projectId, settings) {
      const { status, body } = await platform.call('PUT', `/api/v1/projects/${projectId}/email/smtp`, {
        token: platform.adminToken,
        body: {
          host: mailbox.host,
          port,
          from_email: 'post@example.com',
          from_name: 'The post',
          encryption: 'none',
          ...settings,
        },
      })
      assert.equal(status, 200, `PUT email/smtp: ${JSON.stringify(body)}`)
    },
    stop: () => new Promise(resolve => server.close(() => resolve())),
  }
  return mailbox
}

function readable(email: Email): Pick<Message, 'email' | 'subject' | 'text' | 'html' | 'link' | 'code'> {
  const { subject = '', text = '', html = '' } = email
  const links = [...linksInText(text), ...linksInHtml(html)]
  const words = text === '' ? html.replaceAll(/<[^>]*>/g, ' ') : text
  return {
    email,
    subject,
    text,
    html,
    link: links.find(link => URL.parse(link)?.pathname.endsWith('/verify')),
    code: /(?<!\w)\d{6}(?!\w)/.exec(words.replaceAll(urls, ' '))?.[0],
  }
}

const urls = /https?:\/\/[^\s<>"']+/g

const linksInText = (text: string) => (text.match(urls) ?? []).map(url => url.replace(/[.,;)\]]+$/, ''))

const linksInHtml = (html: string) =>
  [...html.matchAll(/href\s*=\s*"([^"]*)"|href\s*=\s*'([^']*)'/gi)].map(match =>
    unescaped(match[1] ?? match[2] ?? ''),
  )

const named: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }

function unescaped(html: string): string {
  return html.replaceAll(/&(?:#x([0-9a-f]+)|#(\d+)|(\w+));/gi, (whole, hex, decimal, name) => {
    if (hex) return String.fromCodePoint(Number.parseInt(hex, 16))
    if (decimal) return String.fromCodePoint(Number(decimal))
    return named[name.toLowerCase()] ?? whole
  })
}
