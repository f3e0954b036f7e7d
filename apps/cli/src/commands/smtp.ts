// The SMTP server of a project. What no flag names stays as it is; the password is never an argument, which every
// process of the machine could read.
import type { Encryption, Smtp, SmtpWish } from '@plinth/contract/email.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { connect } from '../platform.ts'
import { fields, type Paint } from '../print.ts'
import { projectId } from '../project.ts'

export async function show(context: Context): Promise<Answer> {
  const platform = connect(context)
  const smtp = await platform.email.readSmtp({ params: { id: await projectId(context, platform) } })
  return { data: smtp, text: paint => smtpText(paint, smtp), hints: hintsOn(smtp) }
}

export async function set(context: Context): Promise<Answer> {
  const platform = connect(context)
  const port = portGiven(context.given.values['port'])
  const id = await projectId(context, platform)
  const stored = await platform.email.readSmtp({ params: { id } })
  const body = wish(context, stored, port)
  const password = body.username ? await passwordGiven(context) : null
  const smtp = await platform.email.saveSmtp({
    params: { id },
    body: { ...body, ...(password !== '' && { password }) },
  })
  return {
    data: smtp,
    text: paint => smtpText(paint, smtp),
    hints: [`POST /api/v1/projects/${id}/email/test sends a test mail.`],
  }
}

function wish({ given: { values } }: Context, stored: Smtp, port: number | undefined): SmtpWish {
  // Of the deployment's server only the sender is known, and that is not to become the project's own.
  const own = stored.source === 'project' ? stored : undefined
  const host = values['host'] ?? own?.host
  if (!host)
    throw new Failure(
      'usage_missing_flag',
      'The project has no SMTP server yet.',
      'Name one with --host, and the sender with --from.',
    )
  const encryption = (values['encryption'] as Encryption | undefined) ?? own?.encryption
  // Another way of encryption has another port, unless one is named.
  const kept = encryption === own?.encryption ? own?.port : undefined
  const from = values['from'] ?? own?.from_email
  return {
    host,
    username: values['user'] === 'none' ? '' : (values['user'] ?? own?.username ?? ''),
    from_name: values['from-name'] ?? own?.from_name ?? '',
    ...(from && { from_email: from }),
    ...(encryption && { encryption }),
    ...((port ?? kept) && { port: port ?? kept! }),
  }
}

function portGiven(text: string | undefined): number | undefined {
  if (text === undefined) return
  if (/^[1-9]\d{0,4}$/.test(text) && Number(text) < 65_536) return Number(text)
  throw new Failure('usage_invalid_value', `--port cannot be "${text}": it is a number from 1 to 65535.`)
}

/** Empty keeps the stored one. */
async function passwordGiven({ screen }: Context): Promise<string> {
  const { askSecret, firstLineOfStdin } = await import('../prompt.ts')
  if (screen.isInteractive) return askSecret('SMTP password (empty keeps the stored one): ')
  return process.stdin.isTTY ? '' : firstLineOfStdin()
}

function smtpText(paint: Paint, smtp: Smtp): string {
  return fields(paint, [
    ['configured', { project: 'yes', deployment: 'by the deployment', none: 'no' }[smtp.source]],
    ['host', smtp.host],
    ['port', smtp.port],
    ['encryption', smtp.encryption],
    ['user', smtp.username],
    ['from', smtp.from_email],
    ['from name', smtp.from_name],
  ])
}

const hintsOn = ({ configured }: Smtp) =>
  configured ? [] : ['Mail is kept in the local catch-all: plinth projects mail shows it.']
