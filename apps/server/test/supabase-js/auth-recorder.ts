// Records which methods of client.auth a suite calls, without changing the client.
import type { Auth } from './auth-shapes.ts'

/** Methods that each file of the suite must call. A method that is neither here nor in `unsupported` needs a test. */
export const covered = {
  accounts: ['auth.signUp', 'auth.signInAnonymously', 'auth.signInWithPassword'],
  sessions: [
    'auth.initialize',
    'auth.isThrowOnErrorEnabled',
    'auth.getSession',
    'auth.setSession',
    'auth.refreshSession',
    'auth.getUser',
    'auth.getClaims',
    'auth.onAuthStateChange',
    'auth.startAutoRefresh',
    'auth.stopAutoRefresh',
    'auth.dispose',
    'auth.signOut',
    'auth.admin.signOut',
  ],
  mail: [
    'auth.signInWithOtp',
    'auth.verifyOtp',
    'auth.exchangeCodeForSession',
    'auth.resetPasswordForEmail',
    'auth.resend',
    'auth.reauthenticate',
    'auth.updateUser',
  ],
  providers: [
    'auth.signInWithOAuth',
    'auth.signInWithIdToken',
    'auth.linkIdentity',
    'auth.unlinkIdentity',
    'auth.getUserIdentities',
  ],
  factors: [
    'auth.mfa.enroll',
    'auth.mfa.challenge',
    'auth.mfa.verify',
    'auth.mfa.challengeAndVerify',
    'auth.mfa.unenroll',
    'auth.mfa.listFactors',
    'auth.mfa.getAuthenticatorAssuranceLevel',
    'auth.admin.mfa.listFactors',
    'auth.admin.mfa.deleteFactor',
  ],
  admin: [
    'auth.admin.createUser',
    'auth.admin.listUsers',
    'auth.admin.getUserById',
    'auth.admin.updateUserById',
    'auth.admin.deleteUser',
    'auth.admin.inviteUserByEmail',
    'auth.admin.generateLink',
  ],
} as const
export type Theme = keyof typeof covered

/** Methods, and groups of them, that this server does not support. A test checks that they return an error. */
export const unsupported = [
  'auth.signInWithWeb3',
  'auth.signInWithSSO',
  'auth.signInWithPasskey',
  'auth.registerPasskey',
  'auth.passkey.*',
  'auth.oauth.*',
  'auth.mfa.webauthn.*',
  'auth.mfa.recoveryCodes.*',
  'auth.admin.passkey.*',
  'auth.admin.oauth.*',
  'auth.admin.customProviders.*',
]

/** Internal methods of the client. They are private in TypeScript but exist on the prototypes. */
const internal = new Set([
  'auth.signInWithEthereum',
  'auth.signInWithSolana',
  'auth.linkIdentityOAuth',
  'auth.linkIdentityIdToken',
  'auth.fetchJwk',
])
/** Properties with options of the client, not methods. */
const given = new Set(['storage', 'userStorage', 'client', 'fetch', 'logger', 'lock'])

export const called = new Set<string>()

/** A proxy that records every call, also of nested groups. */
export function recordCalls<T extends object>(object: T, path = 'auth'): T {
  return new Proxy(object, {
    get(target, name) {
      const value = Reflect.get(target, name, target)
      if (typeof name !== 'string' || given.has(name)) return value
      if (typeof value === 'function')
        return (...args: unknown[]) => {
          called.add(`${path}.${name}`)
          return value.apply(target, args)
        }
      return isGroup(value) ? recordCalls(value, `${path}.${name}`) : value
    },
  })
}

/** Every public method of the client and its groups, read at run time. */
export function offered(auth: Auth): string[] {
  return methodsBelow(auth, 'auth').filter(method => !internal.has(method))
}

export function isUnsupported(method: string): boolean {
  const group = `${method.slice(0, method.lastIndexOf('.'))}.*`
  return unsupported.includes(method) || unsupported.includes(group)
}

function methodsBelow(object: object, path: string): string[] {
  const own = Object.entries(object).filter(([name]) => !given.has(name) && !name.startsWith('_'))
  return [
    ...inherited(object).map(name => `${path}.${name}`),
    ...own.flatMap(([name, value]) =>
      typeof value === 'function'
        ? [`${path}.${name}`]
        : isGroup(value)
          ? methodsBelow(value, `${path}.${name}`)
          : [],
    ),
  ]
}

const isGroup = (value: unknown): value is object =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).some(newUser => typeof newUser === 'function')

function inherited(object: object): string[] {
  const names = new Set<string>()
  for (
    let each = Object.getPrototypeOf(object);
    each !== Object.prototype;
    each = Object.getPrototypeOf(each)
  )
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(each)))
      if (typeof value === 'function' && name !== 'constructor' && !name.startsWith('_')) names.add(name)
  return [...names]
}
