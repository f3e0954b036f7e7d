// The SMTP server of a project. Settings without a flag are kept. The password is never an argument, because every
// process of the machine can read arguments.
import type { Encryption, Smtp, SmtpInput } from '@plinth/contract/email.ts'
import type { Answer, Context } from '../context.ts'
import { Failure } from '../failure.ts'
import { fields, type Paint } from '../print.ts'
import { openProject } from '../project.ts'

export async function show(context: Context): Promise<Answer> {
  const { platform, id } = await openProject(context)
  const smtp = await platform.email.readSmtp({ params: { id } })
  return { data: smtp, text: paint => smtpText(paint, smtp), hints: hintsFor(smtp) }
}

export async function set(context: Context): Promise<Answer> {
  const port = portGiven(context.given.values['port'])
  const { platform, id } = await openProject(context)
  const stored = await platform.email.readSmtp({ params: { id } })
  const body = newSettings(context, stored, port)
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

function newSettings({ given: { values } }: Context, stored: Smtp, port: number | undefined): SmtpInput {
  // The settings of the deployment must not become settings of the project.
  const own = stored.source === 'project' ? stored : undefined
  const host = values['host'] ?? own?.host
  if (!host)
    throw new Failure(
      'usage_missing_flag',
      'The project has no SMTP server yet.',
      'Name one with --host, and the sender with --from.',
    )
  const encryption = (values['encryption'] as Encryption | undefined) ?? own?.encryption
  // Another encryption has another default port.
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
  throw new Failure('usage_invalid_value', `--port cannot be "${text}": it must be a number from 1 to 65535.`)
}

/** An empty password keeps the stored one. */
async function passwordGiven(context: Context): Promise<string> {
  const { askSecret, firstLine } = await import('../prompt.ts')
  if (context.screen.isInteractive) return askSecret(context, 'SMTP password (empty keeps the stored one): ')
  return context.stdin.isTTY ? '' : firstLine(context.stdin)
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

const hintsFor = ({ configured }: Smtp) =>
  configured ? [] : ['Mail is captured locally: plinth projects mail shows it.']
