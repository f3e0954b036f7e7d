import type { Answer, Context } from '../context.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'
import { clean } from '../print.ts'
import { newPassword } from '../prompt.ts'

interface Person {
  id: string
  email: string
  role: string
}

/** Beside the database it needs no credential; elsewhere it is an ordinary call with an admin token. */
export async function bootstrap(context: Context): Promise<Answer> {
  const { email, name } = context.given.values
  const person = setting(context.environment, 'DATABASE_URL')
    ? await onThisMachine(context, email!, name)
    : await throughTheApi(context, email!, name)
  const { id, role } = person
  return {
    data: { id, email: person.email, role },
    text: () => `${clean(person.email)} is now a ${role} and can sign in.`,
  }
}

const chosenPassword = ({ environment, screen }: Context): Promise<string> | string =>
  environment['PLATFORM_BOOTSTRAP_PASSWORD'] || newPassword(screen.isInteractive)

async function throughTheApi(context: Context, email: string, name: string | undefined): Promise<Person> {
  const { connect } = await import('../platform.ts')
  const { admin } = connect(context)
  const password = await chosenPassword(context)
  return admin.createUser({ body: { email, password, role: 'super_admin', ...(name && { name }) } })
}

async function onThisMachine(context: Context, email: string, name: string | undefined): Promise<Person> {
  const { runServer } = await import('../server-process.ts')
  const password = await chosenPassword(context)
  const args = ['bootstrap', '--email', email, ...(name ? ['--name', name] : [])]
  const { code, stdout, stderr } = await runServer(context, args, `${password}\n`)
  const lastLine = stdout.trim().split('\n').at(-1) ?? ''
  if (code === 0) return JSON.parse(lastLine) as Person
  throw new Failure(
    'bootstrap_failed',
    stderr.trim() || `the server ended with code ${code}`,
    'It needs DATABASE_URL and CONTROL_PLANE_SECRET as the platform has them.',
  )
}
