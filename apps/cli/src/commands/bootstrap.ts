import type { Answer, Context } from '../context.ts'
import { setting } from '../environment.ts'
import { Failure } from '../failure.ts'
import { clean } from '../print.ts'
import { newPassword } from '../prompt.ts'

interface PlatformUser {
  id: string
  email: string
  role: string
}

/** With DATABASE_URL it needs no credential; without it, it calls the API with an admin token. */
export async function bootstrap(context: Context): Promise<Answer> {
  const { email, name } = context.given.values
  const user = setting(context.environment, 'DATABASE_URL')
    ? await createInDatabase(context, email!, name)
    : await createByApi(context, email!, name)
  const { id, role } = user
  return {
    data: { id, email: user.email, role },
    text: () => `${clean(user.email)} is now a ${role} and can sign in.`,
  }
}

const chosenPassword = (context: Context): Promise<string> | string =>
  context.environment['PLATFORM_BOOTSTRAP_PASSWORD'] || newPassword(context)

async function createByApi(context: Context, email: string, name: string | undefined): Promise<PlatformUser> {
  const { connect } = await import('../platform.ts')
  const { admin } = connect(context)
  const password = await chosenPassword(context)
  return admin.createUser({ body: { email, password, role: 'super_admin', ...(name && { name }) } })
}

async function createInDatabase(
  context: Context,
  email: string,
  name: string | undefined,
): Promise<PlatformUser> {
  const { runServer } = await import('../server-process.ts')
  const password = await chosenPassword(context)
  const args = ['bootstrap', '--email', email, ...(name ? ['--name', name] : [])]
  const { code, stdout, stderr } = await runServer(context, args, `${password}\n`)
  const lastLine = stdout.trim().split('\n').at(-1) ?? ''
  if (code === 0) return JSON.parse(lastLine) as PlatformUser
  throw new Failure(
    'bootstrap_failed',
    stderr.trim() || `the server ended with code ${code}`,
    'Set DATABASE_URL and CONTROL_PLANE_SECRET to the values of the platform.',
  )
}
