// SMTP settings: `settings.smtp` of the project, else the server of the deployment, else none. The free-form project
// settings can hold invalid values, which count as missing.
import { type Encryption, encryptions, type Smtp, type SmtpInput } from '@plinth/contract/email.ts'
import type { Sealer } from '#src/kernel/crypto/sealed.ts'
import { Refusal } from '#src/kernel/errors.ts'
import type { Connector } from '#src/kernel/outbound/connect.ts'
import {
  defaultSender,
  isAddress,
  isHost,
  isMailPort,
  type SmtpServer,
  smtpDefaults,
} from '#src/kernel/outbound/smtp-server.ts'
import { settingsContext } from '#src/tenancy/settings-secrets.ts'
import { oneLine } from './render.ts'

type Json = Readonly<Record<string, unknown>>

/** The stored password is sealed, or plain if an older version wrote it. */
export interface StoredSmtp {
  host: string
  port: number
  username: string
  password: string
  from_email: string
  from_name: string
  encryption: Encryption
}

const isObject = (value: unknown): value is Json =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

export function storedSmtp(settings: Json): StoredSmtp | undefined {
  const smtp = settings['smtp']
  if (!isObject(smtp)) return
  const text = (name: string) => (typeof smtp[name] === 'string' ? (smtp[name] as string).trim() : '')
  const host = text('host')
  if (!isHost(host)) return
  const port = Number(smtp['port'])
  return withDefaults({
    host,
    port: Number.isInteger(port) && port > 0 && port < 65_536 ? port : undefined,
    username: text('username'),
    // Not trimmed, because a password may begin with a space.
    password: typeof smtp['password'] === 'string' ? smtp['password'] : '',
    from_email: text('from_email'),
    from_name: oneLine(text('from_name'), 100),
    encryption: encryptions.find(each => each === text('encryption')),
  })
}

/**
 * Rejects a server that connections would always refuse. Host names are resolved and checked at each connection, not
 * here, because the answer would show which names exist in the operator's network.
 */
export function checkSmtp({ host, port }: { host?: unknown; port?: unknown }, connector: Connector): void {
  if (typeof host === 'string' && connector.isForbidden(host.trim()))
    throw new Refusal('invalid_request', `Field "host": ${host} is not a public address`, {
      hint: 'The operator can allow private addresses with PLATFORM_OUTBOUND_ALLOW.',
    })
  const number = Number(port)
  if (port !== undefined && Number.isInteger(number) && !isMailPort(number))
    throw new Refusal(
      'invalid_request',
      `Field "port": ${number} is not a mail port; use 25, 465, 587 or one from 1024 on`,
    )
}

/** The same for `smtp` in the free-form settings of a project. */
export function checkSmtpSetting(settings: Json, connector: Connector): void {
  const { smtp } = settings
  if (isObject(smtp)) checkSmtp(smtp, connector)
}

/** The new `settings.smtp`. A request without a password keeps the stored one. */
export function smtpFromRequest(request: SmtpInput, stored: Json): Json {
  const { password: storedPassword } = isObject(stored['smtp']) ? stored['smtp'] : {}
  const password = request.password === undefined ? storedPassword : (request.password ?? '')
  const { host, port, username, from_email, from_name, encryption } = withDefaults({
    host: request.host,
    port: request.port,
    username: request.username ?? '',
    password: '',
    from_email: request.from_email ?? '',
    from_name: request.from_name ?? '',
    encryption: request.encryption,
  })
  return {
    host,
    port,
    username,
    ...(typeof password === 'string' && password !== '' && { password }),
    from_email,
    from_name,
    encryption,
  }
}

type Given = Omit<StoredSmtp, 'port' | 'encryption'> & {
  port: number | undefined
  encryption: Encryption | undefined
}

const withDefaults = ({ port, encryption, from_email, ...rest }: Given): StoredSmtp => ({
  ...rest,
  ...smtpDefaults(rest.host, port, encryption),
  from_email: isAddress(from_email) ? from_email : defaultSender(rest.host, rest.username),
})

/** Decrypts the password, directly before sending. */
export const openedSmtp = (smtp: StoredSmtp, projectId: string, sealer: Sealer): SmtpServer => ({
  host: smtp.host,
  port: smtp.port,
  encryption: smtp.encryption,
  login:
    smtp.username === ''
      ? undefined
      : { user: smtp.username, password: sealer.open(smtp.password, settingsContext(projectId)) },
  from: { name: smtp.from_name, address: smtp.from_email },
})

export function shownSmtp(smtp: StoredSmtp | undefined, deployment: SmtpServer | undefined): Smtp {
  if (smtp) {
    const { password: _, ...shown } = smtp
    return { ...shown, configured: true, source: 'project' }
  }
  return {
    host: null,
    port: null,
    username: null,
    from_email: deployment?.from.address ?? null,
    from_name: deployment?.from.name ?? null,
    encryption: null,
    configured: deployment !== undefined,
    source: deployment ? 'deployment' : 'none',
  }
}
