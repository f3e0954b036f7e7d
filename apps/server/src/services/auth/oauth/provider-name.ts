export const providerNames = ['github', 'google', 'apple', 'discord', 'microsoft'] as const
export type ProviderName = (typeof providerNames)[number]

/** The client library calls Microsoft `azure`. */
export const providerNamed = (name: string): ProviderName | undefined =>
  name === 'azure' ? 'microsoft' : providerNames.find(each => each === name)
